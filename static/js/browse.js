// Requests of the browsable API. A GET opens an address; the answers to other requests replace the one on the page.
document.addEventListener("submit", async (event) => {
  const form = event.target.closest(".api-request");
  if (!form) return;
  event.preventDefault();
  const address = new URL(form.action);
  const headers = { Accept: "text/html", "X-CSRFToken": document.querySelector("[name=csrfmiddlewaretoken]").value };
  for (const field of form.querySelectorAll("[data-in]")) {
    if (!field.value.trim()) continue;
    if (field.dataset.in === "header") headers[field.name] = field.value.trim();
    else for (const value of "list" in field.dataset ? field.value.split(",") : [field.value]) address.searchParams.append(field.name, value.trim());
  }
  const method = form.dataset.method.toUpperCase();
  if (method === "GET") return location.assign(address);
  const body = form.querySelector("textarea");
  if (body) headers["Content-Type"] = "application/json";
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const response = await fetch(address, { method, headers, body: body?.value });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const answer = page.getElementById("answer");
    const place = document.getElementById("answer");
    if (answer) place.replaceWith(answer);
    else place.textContent = `${response.status} ${response.statusText}`;
    const etag = response.headers.get("ETag");
    if (etag) for (const field of document.querySelectorAll("[name=If-Match]")) field.value = etag;
  } catch (error) {
    document.getElementById("answer").textContent = error.message;
  } finally {
    button.disabled = false;
    document.getElementById("answer").scrollIntoView();
  }
});
