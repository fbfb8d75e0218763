// Loaded before anything else into the processes of a server: the addon is the one whose GPU is simulated, and SIGUSR2 takes that
// GPU away, as a driver that starts anew does.

import Module from 'node:module';
import { fileURLToPath } from 'node:url';

const real = fileURLToPath(new URL('../../build/chairlift.node', import.meta.url));
const simulated = fileURLToPath(new URL('../../build/chairlift-simulated-gpu.node', import.meta.url));

const load = Module._extensions['.node'];
Module._extensions['.node'] = (module, path) => load(module, path === real ? simulated : path);

process.on('SIGUSR2', () => {
  process.env.CHAIRLIFT_SIMULATED_GPU_LOST = '1';
});
