// What vLLM's clients and the balancers in front of it ask: its version, whether it lives, how much it has to do, other adapters.

import { loadOf } from '../../engine/engine-client.ts';
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
      handler: async () => ({ server_load: await sequencesOf(context) }),
    },
  ];
}

async function sequencesOf({ pool }: ServerContext): Promise<number> {
  const loads = await Promise.all(pool.loaded().map(({ engine }) => loadOf(engine).catch(() => undefined)));
  return loads.reduce((sum, one) => {
    const waiting = one?.queues.reduce((total, queue) => total + queue.waiting, 0) ?? 0;
    return sum + waiting + (one?.running ?? 0);
  }, 0);
}
