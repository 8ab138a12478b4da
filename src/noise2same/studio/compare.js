// Moves the border between before and after, zooms and pans, and blends by the strength: all in the browser.
(() => {
  const root = document.documentElement, view = { zoom: 1, x: 0, y: 0 };
  const stage = () => document.querySelector(".n2s-stage:not(.n2s-empty)");
  const place = () => {
    const box = stage();
    if (!box) return;
    const { clientWidth: width, clientHeight: height } = box;
    view.x = Math.min(0, Math.max(width * (1 - view.zoom), view.x));
    view.y = Math.min(0, Math.max(height * (1 - view.zoom), view.y));
    root.style.setProperty("--n2s-zoom", view.zoom);
    root.style.setProperty("--n2s-x", view.x + "px");
    root.style.setProperty("--n2s-y", view.y + "px");
    box.classList.toggle("n2s-near", view.zoom * width / box.dataset.width >= 2);
  };
  const zoomTo = (zoom, x, y) => {
    const box = stage();
    if (!box) return;
    const most = Math.max(4, 32 * box.dataset.width / box.clientWidth);
    const next = Math.min(most, Math.max(1, zoom)), factor = next / view.zoom;
    const at = [x ?? box.clientWidth / 2, y ?? box.clientHeight / 2];
    view.x = at[0] - factor * (at[0] - view.x);
    view.y = at[1] - factor * (at[1] - view.y);
    view.zoom = next;
    place();
  };
  const split = share => root.style.setProperty("--n2s-split", share + "%");
  const actions = {
    in: () => zoomTo(view.zoom * 1.5),
    out: () => zoomTo(view.zoom / 1.5),
    fit: () => zoomTo(1),
    pixels: () => stage() && zoomTo(stage().dataset.width / stage().clientWidth),
    removed: button => button.setAttribute("aria-pressed", root.classList.toggle("n2s-show-removed")),
  };
  document.addEventListener("input", event => {
    if (event.target.id === "n2s-split") split(event.target.value);
    if (event.target.closest("#strength")) root.style.setProperty("--n2s-strength", event.target.value);
  });
  document.addEventListener("click", event => {
    const button = event.target.closest("[data-n2s]");
    if (button) actions[button.dataset.n2s](button);
  });
  let held = null;
  document.addEventListener("pointerdown", event => {
    const box = event.target.closest(".n2s-stage");
    if (!box || box.classList.contains("n2s-empty")) return;
    const edges = box.getBoundingClientRect(), slider = document.getElementById("n2s-split");
    const line = edges.left + edges.width * slider.value / 100;
    held = { box, slider, line: view.zoom === 1 || Math.abs(event.clientX - line) < 24, x: event.clientX, y: event.clientY };
    move(event);
  });
  const move = event => {
    if (!held) return;
    if (held.line) {
      const edges = held.box.getBoundingClientRect();
      held.slider.value = Math.min(100, Math.max(0, 100 * (event.clientX - edges.left) / edges.width));
      split(held.slider.value);
    } else {
      view.x += event.clientX - held.x;
      view.y += event.clientY - held.y;
      [held.x, held.y] = [event.clientX, event.clientY];
      place();
    }
  };
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerup", () => { held = null; });
  document.addEventListener("wheel", event => {
    const box = event.target.closest?.(".n2s-stage:not(.n2s-empty)");
    if (!box || (view.zoom === 1 && event.deltaY > 0)) return;
    event.preventDefault();
    const edges = box.getBoundingClientRect();
    zoomTo(view.zoom * (event.deltaY < 0 ? 1.2 : 1 / 1.2), event.clientX - edges.left, event.clientY - edges.top);
  }, { passive: false });
})();
