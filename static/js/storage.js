// What this browser keeps for a person. Storage can be blocked, full or switched off: then nothing is read and nothing is
// kept, and the page works without it.
function guarded(kind) {
  function attempt(act, otherwise) {
    try {
      return act(window[kind]); // blocked storage refuses even to be named
    } catch {
      return otherwise;
    }
  }
  return {
    get: (name) => attempt((storage) => storage.getItem(name), null),
    set: (name, value) => attempt((storage) => { storage.setItem(name, value); return true; }, false),
    remove: (name) => attempt((storage) => storage.removeItem(name), null),
    names: () => attempt((storage) => Object.keys(storage), []),
  };
}

export const kept = guarded("localStorage"); // until it is removed
export const keptForTab = guarded("sessionStorage"); // as long as the tab is open
