// The engine process: loads one model and serves it until its parent ends it or is gone itself.

import { messageOf } from '../runtime/error-message.ts';
import { Engine } from './engine.ts';
import { loadEngine, readyMessage } from './load-engine.ts';
import { type EngineSettings, type FromEngine, handleCommand, type ToEngine } from './protocol.ts';
import type { StepReport } from './step-report.ts';

function send(message: FromEngine): void {
  // A parent that has gone away is noticed through `disconnect`; until then a message to it may fail.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}

/**
 * Sends a report once the engine's next step has begun, which is within the microtasks that are due now: sending takes as long
 * as a good part of the loop, and the device computes meanwhile.
 */
function sendReport(report: StepReport): void {
  process.nextTick(send, { kind: 'report', report });
}

process.on('disconnect', () => process.exit(0));
// The parent decides when this process ends, also where somebody signals all processes of a service.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => {});
process.on('SIGHUP', () => {});
// Warnings that nobody can read any more are no reason to end.
for (const output of [process.stdout, process.stderr]) output.on('error', () => {});

process.once('message', (message: ToEngine) => {
  if (message.kind !== 'load') throw new Error(`an engine process must load first, not ${message.kind}`);
  serve(message.settings);
});

async function serve(settings: EngineSettings): Promise<void> {
  const engine = await start(settings);
  if (engine === undefined) return;
  process.on('message', (message: ToEngine) => handleCommand(engine, message, send));
  // An error here is a fault of the engine, not of a request: the process ends, the supervisor starts another.
  await engine.run();
}

async function start(settings: EngineSettings): Promise<Engine | undefined> {
  try {
    const loaded = await loadEngine(
      settings,
      (share) => send({ kind: 'loading', share }),
      (message) => send({ kind: 'warning', message }),
    );
    const engine = new Engine(loaded.backend, loaded.options, sendReport);
    send(readyMessage(loaded));
    return engine;
  } catch (error) {
    send({ kind: 'unservable', message: messageOf(error) });
    process.disconnect();
    return undefined;
  }
}
