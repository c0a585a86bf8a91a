// Texts for scripts, in the language of the page. They stand in _script_texts.html.
export const texts = document.getElementById("texts").dataset;
