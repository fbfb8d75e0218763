// What an engine does when it is told something, once its model is loaded.

import type { Engine } from './engine.ts';
import type { FromEngine, ToEngine } from './protocol.ts';

export function obey(engine: Engine, message: ToEngine, send: (message: FromEngine) => void): void {
  switch (message.kind) {
    case 'submit':
      return engine.submit(message.request);
    case 'cancel':
      return engine.cancel(message.id);
    case 'stats':
      return send({ kind: 'stats', ticket: message.ticket, stats: engine.stats(Date.now()) });
    case 'watch':
      return engine.setWatched(message.on);
    case 'allow':
      return engine.allow(message.blocks);
    case 'threads':
      return engine.useThreads(message.count);
    case 'load':
      throw new Error('the model is loaded already');
  }
}
