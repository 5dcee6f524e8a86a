// Loads the console's modules on every page. A classic script, because unfold adds scripts without a type.
import(new URL("./console.js", document.currentScript.src));
