// What a fleet keeps: buckets of values in the message system, in as many copies as it can.

import { jetstream } from '@nats-io/jetstream';
import { type KV, Kvm, type KvOptions } from '@nats-io/kv';
import type { NatsConnection } from '@nats-io/transport-node';
import { messageOf } from '../runtime/error-message.ts';

/** A cluster keeps so many copies; a single server keeps one. */
const COPIES = [3, 1] as const;

/** Makes it where it is not there; undefined, and told why, where nothing can be kept. */
export async function openBucket(
  connection: NatsConnection,
  name: string,
  options: Partial<KvOptions>,
  onProblem: (message: string) => void,
): Promise<KV | undefined> {
  let reason = '';
  for (const replicas of COPIES) {
    try {
      return await new Kvm(jetstream(connection)).create(name, { ...options, history: 1, replicas });
    } catch (error) {
      reason = messageOf(error);
    }
  }
  onProblem(`the message system keeps no ${name}: ${reason}`);
  return undefined;
}
