// Redoc shows its vendor's logo from another host, which the content security policy forbids. React sets the address of an
// image both as attribute and as property.
const isOwn = (value) => [location.origin, "null"].includes(new URL(value, location.href).origin); // "null": data: and blob:
const image = HTMLImageElement.prototype;
const source = Object.getOwnPropertyDescriptor(image, "src");
image.setAttribute = function (name, value) {
  if (name !== "src" || isOwn(value)) Element.prototype.setAttribute.call(this, name, value);
};
Object.defineProperty(image, "src", { ...source, set(value) { if (isOwn(value)) source.set.call(this, value); } });

const place = document.getElementById("viewer");
Redoc.init(place.dataset.schema, { expandResponses: "200,201" }, place);
