// Loaded before anything else into the processes of a server: SIGUSR2 takes the GPU away from one that has opened it, as
// a driver that starts anew does.

const devices = [];

/** Sees to it that each device is known; Dawn's classes are global once it is loaded. */
function watch(GPUAdapter) {
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = async function (...args) {
    const device = await requestDevice.apply(this, args);
    devices.push(device);
    return device;
  };
}

Object.defineProperty(globalThis, 'GPUAdapter', {
  configurable: true,
  set(GPUAdapter) {
    Object.defineProperty(globalThis, 'GPUAdapter', { value: GPUAdapter, writable: true });
    watch(GPUAdapter);
  },
});

process.on('SIGUSR2', () => {
  for (const device of devices) device.destroy();
});
