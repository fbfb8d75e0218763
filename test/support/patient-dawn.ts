// While it waits for a GPU, Dawn asks again and again, by setImmediate, and keeps a core busy with it. A software GPU needs
// that core: here Dawn asks every millisecond. A setup file runs before every test file, and one process runs several.

const { setImmediate: soon } = globalThis;

const isNative = (callback: () => void): boolean =>
  Function.prototype.toString.call(callback).includes('[native code]');

const patient = ((callback: (...args: unknown[]) => void, ...args: unknown[]) =>
  isNative(callback) ? setTimeout(callback, 1, ...args) : soon(callback, ...args)) as typeof setImmediate;

if (soon.name !== patient.name) globalThis.setImmediate = patient;
