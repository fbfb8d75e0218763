// What vLLM's clients and the balancers in front of it ask: its version, whether it lives, how much it has to do, other adapters.

import type { ServerContext } from '../context.ts';
import type { Route } from '../route.ts';
import { loraRoutes } from './lora.ts';

export function vllmRoutes(context: ServerContext): readonly Route[] {
  const alive = async () => ({});
  return [
    ...loraRoutes(context),
    {
      method: 'GET',
      url: '/version',
      access: 'key',
      summary: 'The version of this server',
      handler: async () => ({ version: context.version }),
    },
    { method: 'GET', url: '/ping', access: 'open', summary: 'That the server lives', handler: alive },
    { method: 'POST', url: '/ping', access: 'open', summary: 'The same', handler: alive },
    {
      method: 'GET',
      url: '/load',
      access: 'key',
      summary: 'How many sequences run or wait, in all models',
      handler: async () => ({ server_load: await loadOf(context) }),
    },
  ];
}

async function loadOf({ pool }: ServerContext): Promise<number> {
  const stats = await Promise.all(pool.loaded().map(({ engine }) => engine.stats().catch(() => undefined)));
  return stats.reduce((sum, one) => {
    const waiting = one?.queues.reduce((total, queue) => total + queue.waiting, 0) ?? 0;
    return sum + waiting + (one?.running.length ?? 0);
  }, 0);
}
