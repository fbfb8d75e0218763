// Which contents go by each name of a model in a fleet. More than one under a name is a mistake, or a rollout: it is reported
// once, and the one on more workers answers unless the configuration pins one.

import type { Membership } from '../membership.ts';
import type { NodeStatus } from '../messages.ts';

/** By name of a model: the key it must have, or how that begins. */
export type PinnedContents = ReadonlyMap<string, string>;

/** How much of a key people are shown. */
export const SHOWN_KEY = 12;

export class ModelContents {
  /** By name and key: the workers that have it. */
  readonly #workers = new Map<string, Map<string, Set<string>>>();
  /** By worker: the key of each name, as counted. */
  readonly #counted = new Map<string, ReadonlyMap<string, string>>();
  readonly #reported = new Set<string>();
  readonly #pins: PinnedContents;
  readonly #onProblem: (message: string) => void;

  constructor(
    membership: Pick<Membership, 'onStatus' | 'onChange'>,
    pins: PinnedContents,
    onProblem: (message: string) => void,
  ) {
    this.#pins = pins;
    this.#onProblem = onProblem;
    membership.onStatus((status) => this.#count(status.node, keysOf(status)));
    membership.onChange((change, { node }) => {
      if (change === 'left') this.#count(node, new Map());
    });
  }

  /** How many contents each name has. */
  counts(): { readonly model: string; readonly contents: number }[] {
    return [...this.#workers].map(([model, { size }]) => ({ model, contents: size }));
  }

  #count(node: string, keys: ReadonlyMap<string, string>): void {
    const before = this.#counted.get(node);
    if (keys.size === 0) this.#counted.delete(node);
    else this.#counted.set(node, keys);
    for (const [name, key] of before ?? []) if (keys.get(name) !== key) this.#remove(name, key, node);
    for (const [name, key] of keys) if (before?.get(name) !== key) this.#add(name, key, node);
  }

  #add(name: string, key: string, node: string): void {
    const contents = this.#workers.get(name) ?? new Map<string, Set<string>>();
    this.#workers.set(name, contents);
    contents.set(key, (contents.get(key) ?? new Set()).add(node));
    if (contents.size > 1) this.#report(name, contents);
  }

  #remove(name: string, key: string, node: string): void {
    const contents = this.#workers.get(name);
    const nodes = contents?.get(key);
    nodes?.delete(node);
    if (nodes?.size === 0) contents?.delete(key);
    if (contents?.size === 0) this.#workers.delete(name);
  }

  #report(name: string, contents: ReadonlyMap<string, ReadonlySet<string>>): void {
    const slot = `${name} ${[...contents.keys()].sort().join(' ')}`;
    if (this.#reported.has(slot)) return;
    this.#reported.add(slot);
    const where = [...contents].map(
      ([key, nodes]) => `${key.slice(0, SHOWN_KEY)} on ${[...nodes].join(', ')}`,
    );
    const pin = this.#pins.get(name);
    const chosen =
      pin === undefined
        ? `the one on more workers answers, until --model-content ${name}=… pins one`
        : `those that are not ${pin} are left out`;
    this.#onProblem(`workers have different files by the name ${name} (${where.join('; ')}): ${chosen}`);
  }
}

function keysOf({ models }: NodeStatus): ReadonlyMap<string, string> {
  return new Map(models.map(({ name, key }) => [name, key]));
}
