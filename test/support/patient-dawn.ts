// While it waits for a GPU, Dawn asks again and again, by setImmediate, and keeps a core busy with it. Where a processor
// plays the GPU that core is wanted: here Dawn asks every millisecond.

const { setImmediate: soon } = globalThis;

const isNative = (callback: () => void): boolean =>
  Function.prototype.toString.call(callback).includes('[native code]');

globalThis.setImmediate = ((callback: (...args: unknown[]) => void, ...args: unknown[]) =>
  isNative(callback) ? setTimeout(callback, 1, ...args) : soon(callback, ...args)) as typeof setImmediate;
