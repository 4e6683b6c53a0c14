// What HTML does better than widgets: send a file, tell the preferred theme, give the sliders words for screen readers.
(function () {
  const input = document.getElementById("patterns");
  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (!file) return;
    const limit = Number(input.dataset.limit), words = document.getElementById("too-large");
    words.hidden = file.size <= limit;
    words.textContent = `Refused: the file has ${(file.size / 2**20).toFixed(0)} MiB; the limit is ${limit / 2**20} MiB.`;
    try { if (file.size <= limit) await fetch(input.dataset.href, { method: "POST", body: file }); }
    finally { input.value = ""; }
  });

  const models = () => (window.Bokeh && Bokeh.documents.length ? [...Bokeh.documents[0].all_models] : []);
  const known = (name) => models().find((model) => model.css_classes && [...model.css_classes].includes(name));

  // the browser's own preference, for the charts of the theme "auto"
  const dark = matchMedia("(prefers-color-scheme: dark)");
  function tellScheme() {
    const model = known("scheme");
    if (!model) { setTimeout(tellScheme, 100); return; }
    model.value = dark.matches ? "dark" : "light";
  }
  tellScheme();
  dark.addEventListener("change", () => {
    tellScheme();
    window.setTheme(document.documentElement.dataset.chosen);
  });

  // the page that this tab showed before: its finished run is shown again
  function tellBefore() {
    const model = known("before");
    if (!model) { setTimeout(tellBefore, 100); return; }
    try {
      model.value = sessionStorage.getItem("solspace") ?? "";
      sessionStorage.setItem("solspace", document.documentElement.dataset.token);
    } catch { /* a browser that keeps nothing */ }
  }
  tellBefore();

  // A slider stands at a place between 0 and 1. A screen reader reads the value of the field above it.
  function speak(handle, name) {
    const field = known(`field-${name}`);
    handle.setAttribute("aria-label", field.title ?? field.name);
    const say = () => {
      if (handle.getAttribute("aria-valuetext") !== field.value) handle.setAttribute("aria-valuetext", field.value);
    };
    field.properties.value.change.connect(say);
    new MutationObserver(say).observe(handle, { attributes: true, attributeFilter: ["aria-valuetext"] });
    say();
  }

  function everyRoot(root, visit) {
    visit(root);
    for (const node of root.querySelectorAll("*")) if (node.shadowRoot) everyRoot(node.shadowRoot, visit);
  }
  const spoken = new WeakSet();
  setInterval(() => everyRoot(document, (root) => {
    for (const handle of root.querySelectorAll(".noUi-handle")) {
      const slider = [...(root.host ? root.host.classList : [])].find((name) => name.startsWith("slider-"));
      if (!slider || spoken.has(handle)) continue;
      spoken.add(handle);
      speak(handle, slider.slice("slider-".length));
    }
  }), 500);
})();
