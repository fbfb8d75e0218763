// What the message system of a simulated fleet keeps, with the faults of JetStream: it acknowledges and loses all the same, it
// answers from a leader that has been replaced, it takes nothing more, or it is silent.

import type { BucketOptions, KeptValues } from '../../src/fleet/bucket.ts';
import type { SimulatedNetwork } from './network.ts';
import type { SimulatedProcess } from './process.ts';

const TIMEOUT_MS = 5000;
const ANSWER_MS = 1;
const VALUE_BYTES = 2 ** 20 - 1024;

interface Value {
  readonly bytes: Uint8Array;
  readonly revision: number;
  readonly atMs: number;
}

class Stream {
  readonly values = new Map<string, Value>();
  revision = 0;

  copy(): Stream {
    const copy = new Stream();
    for (const [key, value] of this.values) copy.values.set(key, value);
    copy.revision = this.revision;
    return copy;
  }
}

export class SimulatedBuckets {
  /** Takes no writes: its disks are full. */
  isFull = false;
  readonly #network: SimulatedNetwork;
  readonly #streams = new Map<string, Stream>();
  /** By node that still speaks with it: what a leader believes that was replaced. */
  readonly #stale = new Map<string, Map<string, Stream>>();

  constructor(network: SimulatedNetwork) {
    this.#network = network;
  }

  open(process: SimulatedProcess, node: string, name: string, { ttlMs }: BucketOptions): KeptValues {
    const { time } = this.#network;
    const answered = <Answer>(answer: (stream: Stream) => Answer): Promise<Answer> =>
      new Promise((resolve, reject) => {
        if (!this.#network.reaches(node, 'both')) {
          const late = Object.assign(new Error('timeout'), { name: 'TimeoutError' });
          process.clock.after(TIMEOUT_MS, () => reject(late));
          return;
        }
        time.after(ANSWER_MS / 2, undefined, () => {
          try {
            const given = answer(this.#streamFor(node, name));
            process.run(() => resolve(given), ANSWER_MS / 2);
          } catch (error) {
            process.run(() => reject(error), ANSWER_MS / 2);
          }
        });
      });
    const isAlive = ({ atMs }: Value) => ttlMs === undefined || time.nowMs - atMs < ttlMs;
    return {
      valueBytes: VALUE_BYTES,
      values: {
        get: (key: string) =>
          answered((stream) => {
            const found = stream.values.get(key);
            if (found === undefined || !isAlive(found)) return null;
            return { operation: 'PUT', value: found.bytes, revision: found.revision };
          }),
        put: (key: string, bytes: Uint8Array, options?: { readonly previousSeq?: number }) =>
          answered((stream) => {
            if (this.isFull) throw new Error('insufficient storage resources available');
            const before = stream.values.get(key);
            const previous = options?.previousSeq;
            if (previous !== undefined && previous !== (before?.revision ?? 0)) {
              throw new Error('wrong last sequence');
            }
            const revision = ++stream.revision;
            stream.values.set(key, { bytes: Uint8Array.from(bytes), revision, atMs: time.nowMs });
            return revision;
          }),
      } as unknown as KeptValues['values'],
      bytes: () =>
        answered((stream) => [...stream.values.values()].reduce((sum, { bytes }) => sum + bytes.length, 0)),
      heal: async () => {},
      close: () => {},
    };
  }

  /** A power cut: what came lately is gone, though it was acknowledged. */
  lose(lastMs: number): void {
    const endMs = this.#network.time.nowMs - lastMs;
    for (const { values } of this.#streams.values()) {
      for (const [key, { atMs }] of values) if (atMs > endMs) values.delete(key);
    }
  }

  /** This node speaks with a leader that others have replaced: it reads what was, and what it writes is lost. */
  separate(node: string): void {
    this.#stale.set(node, new Map([...this.#streams].map(([name, stream]) => [name, stream.copy()])));
  }

  unite(node: string): void {
    this.#stale.delete(node);
  }

  #streamFor(node: string, name: string): Stream {
    const streams = this.#stale.get(node) ?? this.#streams;
    const known = streams.get(name) ?? new Stream();
    streams.set(name, known);
    return known;
  }
}
