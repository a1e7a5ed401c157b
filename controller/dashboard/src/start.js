/** Loads the page. If one of its files did not arrive (the network changed meanwhile), it reloads all. */

const AGAIN_MS = 2000;

import("./main.js").catch((error) => {
  // Browsers have different words for a module that failed to load; all of them mention importing.
  if (!/import/i.test(error.message)) throw error;
  document.getElementById("connection").textContent = "The page did not arrive whole: it is loaded again…";
  setTimeout(() => location.reload(), AGAIN_MS);
});
