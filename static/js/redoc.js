// Redoc shows its vendor's logo from another host, which the content security policy forbids.
const setAttribute = HTMLImageElement.prototype.setAttribute;
HTMLImageElement.prototype.setAttribute = function (name, value) {
  const isForeign = name === "src" && !["data:", "blob:"].includes(new URL(value, location.href).protocol) && new URL(value, location.href).origin !== location.origin;
  if (!isForeign) setAttribute.call(this, name, value);
};

const place = document.getElementById("viewer");
Redoc.init(place.dataset.schema, { hideDownloadButton: false, expandResponses: "200,201" }, place);
