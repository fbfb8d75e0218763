import { expect, it, vi } from 'vitest';
import type { EngineSubscriber } from '../../engine/engine-monitor.ts';
import type { ModelPool } from '../../pool/model-pool.ts';
import { nodeClock } from '../../runtime/clock.ts';
import type { PrefixMessage } from '../messages.ts';
import { PrefixPublisher } from './prefix-publisher.ts';

it('what several steps have changed is one message, without what came and went', async () => {
  let subscriber: EngineSubscriber = {};
  const monitor = {
    subscribe: (given: EngineSubscriber) => {
      subscriber = given;
      return { end: () => {}, resendPrefixes: () => {} };
    },
  };
  const pool = { loaded: () => [{ name: 'm', engine: { monitor } }] } as unknown as ModelPool;
  const sent: PrefixMessage[] = [];
  const publish = (message: PrefixMessage) => sent.push(message);
  const publisher = new PrefixPublisher({ node: 'w', start: 's', pool, clock: nodeClock, publish });
  await vi.waitUntil(() => subscriber.prefixes !== undefined);
  const change = (entered: number[], left: number[]) =>
    subscriber.prefixes?.({ kind: 'change', entered: Int32Array.from(entered), left: Int32Array.from(left) });
  change([1, 1, 2, 2], []);
  change([3, 3], [1, 1, 9, 9]);
  change([9, 9], [3, 3]);
  publisher.flush();
  publisher.flush();
  publisher.close();
  expect(sent.map(({ batch }) => [batch.number, [...batch.entered], [...batch.left]])).toEqual([
    [1, [2, 2], []],
  ]);
});
