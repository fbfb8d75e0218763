// What an engine does when it is told something, once its model is loaded.

import type { Engine } from './engine.ts';
import type { FromEngine, ToEngine } from './protocol.ts';

export function obey(engine: Engine, message: ToEngine, send: (message: FromEngine) => void): void {
  switch (message.kind) {
    case 'submit':
      for (const request of message.requests) engine.submit(request);
      break;
    case 'cancel':
      for (const id of message.ids) engine.cancel(id);
      break;
    case 'stats':
      send({ kind: 'stats', ticket: message.ticket, stats: engine.stats(Date.now()) });
      break;
    case 'watch':
      engine.setWatched(message.on);
      break;
    case 'look':
      send({ kind: 'view', ticket: message.ticket, view: engine.look(Date.now()) });
      break;
    case 'look-away':
      engine.lookAway();
      break;
    case 'journal':
      engine.setJournal(message.on);
      break;
    case 'allow':
      engine.allow(message.blocks);
      break;
    case 'threads':
      engine.useThreads(message.count);
      break;
    case 'vocabulary':
      engine.learn(message.tables);
      break;
    case 'load':
      throw new Error('the model is loaded already');
  }
}
