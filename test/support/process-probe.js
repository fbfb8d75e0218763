// Loaded into a server that a test started: tells, when asked by a signal, how its process fares. One line of JSON.

import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';

// Not in its engines and threads.
if (isMainThread && process.argv.includes('serve')) {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  const delays = monitorEventLoopDelay({ resolution: 10 });
  delays.enable();
  process.on('SIGUSR2', () => {
    const ms = (nanoseconds) => Math.round(nanoseconds / 1e6);
    const { max } = delays;
    const [p50, p99] = [delays.percentile(50), delays.percentile(99)];
    // What collecting takes is no delay of the server's.
    delays.disable();
    collect();
    const heapBytes = process.memoryUsage().heapUsed;
    process.stderr.write(
      `probe ${JSON.stringify({ p50: ms(p50), p99: ms(p99), max: ms(max), heapBytes })}\n`,
    );
    delays.reset();
    delays.enable();
  });
}
