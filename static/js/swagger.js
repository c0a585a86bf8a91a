// Swagger UI for this site's API. Requests carry the session, or the token that was entered under "Authorize".
const place = document.getElementById("viewer");
SwaggerUIBundle({
  url: place.dataset.schema,
  domNode: place,
  presets: [SwaggerUIBundle.presets.apis],
  deepLinking: true,
  filter: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  validatorUrl: null, // the default sends the document's address to another host
  requestInterceptor: (request) => {
    if (new URL(request.url, location.href).origin === location.origin) request.headers["X-CSRFToken"] = place.dataset.csrf;
    return request;
  },
});
