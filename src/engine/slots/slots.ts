// Saves the prefixes of slots to files, restores and erases them: one action at a time, its copies between steps, its files in a thread.
// What is saved is what the cache and the tiers below it still have; what is restored is in the prefix cache, as if it had been
// computed.

import { removeSavedSlots } from '../../block-store/slot-files.ts';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { messageOf } from '../../runtime/error-message.ts';
import type { Sequence } from '../scheduler/sequence.ts';
import { BlockKeys } from '../tiers/block-keys.ts';
import { BetweenSteps } from './between-steps.ts';
import { GaveWay, Holds } from './hold.ts';
import { PrefixHolder } from './prefix-holder.ts';
import { restoreSlot } from './restore-slot.ts';
import { saveSlot } from './save-slot.ts';
import { type EraseAction, type SlotAction, type SlotResult, slotFailure } from './slot-action.ts';
import type { SlotContext, SlotsOptions } from './slot-context.ts';
import type { SlotModel } from './slot-manifest.ts';
import { SlotPrefixes } from './slot-prefixes.ts';

const ended = slotFailure('ended', 'the model was unloaded');

export class Slots {
  readonly #options: SlotsOptions;
  readonly #steps: BetweenSteps;
  readonly #holds = new Holds();
  readonly #prefixes = new SlotPrefixes();
  readonly #ending = new AbortController();
  readonly #whenEnding: Promise<undefined>;
  readonly #removed = new Set<string>();
  #whenAllowed: (() => void)[] = [];
  /** Once it is known which model it is. */
  readonly #context: Promise<SlotContext>;
  #identify: (context: SlotContext) => void = () => {};
  /** The last action that was begun or waits. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: SlotsOptions) {
    this.#options = options;
    this.#steps = new BetweenSteps(options.wake);
    this.#context = new Promise((resolve) => {
      this.#identify = resolve;
    });
    this.#whenEnding = new Promise((resolve) => {
      this.#ending.signal.addEventListener('abort', () => resolve(undefined), { once: true });
    });
  }

  get hasWork(): boolean {
    return this.#steps.hasWork;
  }

  get hasCopies(): boolean {
    return this.#steps.hasCopies;
  }

  /** `identity`: of the model as tiers have it. */
  open(model: SlotModel, identity: string): void {
    const { tables } = this.#options;
    const keys = new BlockKeys(tables.prefixes, { model: identity, adapters: model.adapters });
    const [steps, prefixes, { signal }] = [this.#steps, this.#prefixes, this.#ending];
    const whenAllowed = (withinMs: number) => this.#nextAllowed(withinMs);
    this.#identify({
      ...this.#options,
      model,
      keys,
      steps,
      prefixes,
      signal,
      whenAllowed,
      holds: this.#holds,
    });
  }

  numberOf(sequence: Sequence): number | undefined {
    return this.#prefixes.numberOf(sequence);
  }

  started(sequence: Sequence, asked: number | undefined): void {
    this.#prefixes.started(sequence, asked);
  }

  /** Before it lets go of its blocks. Which slot it had, if it has run. */
  ended(sequence: Sequence): number | undefined {
    return this.#prefixes.ended(sequence);
  }

  /** What changes the cache; before a step is planned. */
  runChanges(): void {
    this.#steps.runChanges();
  }

  /** Copies for about so long. */
  advance(budgetMs: number): void {
    const { nowMs } = this.#options;
    const untilMs = nowMs() + budgetMs;
    this.#steps.runCopies(() => nowMs() < untilMs);
  }

  /** The engine may hold another number of blocks. */
  allowed(): void {
    for (const resolve of this.#whenAllowed.splice(0)) resolve();
  }

  #nextAllowed(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, withinMs);
      this.#whenAllowed.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** There is no memory for what is held beside sequences. Between steps. */
  giveWay(): void {
    this.#holds.giveWay();
  }

  /** Never rejects. */
  act(action: SlotAction): Promise<SlotResult> {
    const result = this.#last
      .then(() => this.#act(action))
      .catch((error: unknown) => slotFailure(error instanceof GaveWay ? 'busy' : 'failed', messageOf(error)));
    this.#last = result;
    return result;
  }

  /** Deletes what a tenant has saved, and forgets its slots. */
  removeTenant(tenant: string): void {
    this.#removed.add(tenant);
    this.#prefixes.removeTenant(tenant);
    // What is being saved of it is complete by then.
    const { files, warn } = this.#options;
    this.#last = this.#last
      .then(() => removeSavedSlots(files.folder, tenant))
      .catch((error: unknown) => warn(`saved slots of ${tenant} were not deleted: ${messageOf(error)}`));
  }

  /** The engine computes no more: what is under way fails, and leaves no half file. */
  async close(): Promise<void> {
    this.#ending.abort();
    this.allowed();
    this.#steps.end();
    await this.#last;
  }

  async #act(action: SlotAction): Promise<SlotResult> {
    const context = await Promise.race([this.#context, this.#whenEnding]);
    if (context === undefined || context.signal.aborted) return ended;
    const owner = action.kind === 'erase' ? action.tenant : action.owner;
    if (this.#removed.has(owner)) return slotFailure('absent', 'the key was revoked');
    const startMs = performance.now();
    const result = await this.#run(context, action);
    if (result.ok) return { ...result, ms: performance.now() - startMs };
    if (result.detail !== undefined) context.warn(`saved slots: ${result.message}: ${result.detail}`);
    return result;
  }

  #run(context: SlotContext, action: SlotAction): Promise<SlotResult> {
    switch (action.kind) {
      case 'save':
        return saveSlot(context, action);
      case 'restore':
        return restoreSlot(context, action);
      case 'erase':
        return this.#erase(context, action);
    }
  }

  /** From the end of the prefix on, as far as nobody uses its blocks and no other prefix goes on from them. */
  async #erase({ steps, tables, keys, stored }: SlotContext, action: EraseAction): Promise<SlotResult> {
    const { tenant, slot } = action;
    const prefix = this.#prefixes.get(tenant, slot);
    this.#prefixes.delete(tenant, slot);
    if (prefix === undefined) return { ok: true, tokens: 0, bytes: 0, ms: 0 };
    const holder = new PrefixHolder(`erase ${slot}`, prefix);
    const blocks = await steps.change(() => {
      const found = tables.match(holder);
      const dropped = found.toReversed().findIndex((block) => !tables.drop(block));
      const kept = dropped === -1 ? 0 : found.length - dropped;
      stored?.dropFromHost(keys.chain(holder, holder.blockCount).slice(kept));
      return found.length - kept;
    });
    return { ok: true, tokens: blocks * BLOCK_TOKENS, bytes: 0, ms: 0 };
  }
}
