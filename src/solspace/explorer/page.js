// What HTML does better than widgets: send a file, tell the preferred theme, name the sliders for screen readers.
(function () {
  const input = document.getElementById("patterns");
  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (!file) return;
    const head = { method: "POST", headers: {} };
    if (file.size > Number(input.dataset.limit)) {
      head.headers["X-Refused-Size"] = String(file.size);
    } else {
      head.body = file;
    }
    try { await fetch(input.dataset.href, head); } finally { input.value = ""; }
  });

  // the browser's own preference, for the charts of the theme "auto"
  const dark = matchMedia("(prefers-color-scheme: dark)");
  function tellScheme() {
    const model = window.Bokeh && Bokeh.documents.length && [...Bokeh.documents[0].all_models]
      .find((m) => m.css_classes && [...m.css_classes].includes("scheme"));
    if (!model) { setTimeout(tellScheme, 100); return; }
    model.value = dark.matches ? "dark" : "light";
  }
  tellScheme();
  dark.addEventListener("change", () => {
    tellScheme();
    if (!document.documentElement.dataset.chosen) document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
  });

  function everyRoot(root, visit) {
    visit(root);
    for (const node of root.querySelectorAll("*")) if (node.shadowRoot) everyRoot(node.shadowRoot, visit);
  }
  let attempts = 0;
  const naming = setInterval(() => {
    let unnamed = 0, named = 0;
    everyRoot(document, (root) => {
      for (const handle of root.querySelectorAll(".noUi-handle")) {
        const title = root.querySelector(".bk-slider-title");
        const words = title && title.textContent.replace(/[:\s]+$/, "");
        if (words) { handle.setAttribute("aria-label", words); named += 1; } else unnamed += 1;
      }
    });
    attempts += 1;
    if ((named > 0 && unnamed === 0) || attempts > 60) clearInterval(naming);
  }, 250);
})();
