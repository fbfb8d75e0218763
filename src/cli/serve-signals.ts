// Which signals end the server, and which has it read its files again. They count from before the start, which may take
// minutes: the first process of a container would otherwise not even hear of them.

import { closeSync, openSync } from 'node:fs';
import { isatty } from 'node:tty';

/**
 * What is asked for twice is done within this time, or cut short. Longer than an engine may take to report what it computed
 * for a request that is ended: where it hangs, its requests are charged without it.
 */
const HURRY_MS = 10_000;

interface SignalHandlers {
  /** Once. */
  stop(): void;
  /** Asked again to stop: running requests need not end. */
  hurry(): void;
  reload(): void;
}

export function handleSignals({ stop, hurry, reload }: SignalHandlers): void {
  let asked = 0;
  const onStop = () => {
    asked++;
    if (asked === 1) return stop();
    if (asked > 2) process.exit(1);
    setTimeout(() => process.exit(1), HURRY_MS).unref();
    hurry();
  };
  let terminals = [0, 1, 2].filter((descriptor) => isatty(descriptor));
  process.on('SIGTERM', onStop);
  process.on('SIGINT', onStop);
  process.on('SIGHUP', () => {
    // A terminal that was closed is one no more; whoever wants the server to outlive it starts it with nohup or apart from it.
    const closed = terminals.filter((descriptor) => !isatty(descriptor));
    if (closed.length === 0) return reload();
    for (const descriptor of closed) leaveTerminal(descriptor);
    terminals = terminals.filter((descriptor) => !closed.includes(descriptor));
    if (asked === 0) onStop();
  });
}

/** Node resets the terminals it began with when it ends, and crashes where one is gone: the same number is made another file. */
function leaveTerminal(descriptor: number): void {
  closeSync(descriptor);
  openSync('/dev/null', 'r+');
}
