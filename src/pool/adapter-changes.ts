// Gives models adapters, and takes them, while the server runs.

import { messageOf } from '../runtime/error-message.ts';
import { openLocalModel, readGivenAdapter } from './local-model.ts';
import type { AcquireResult, AdapterChange } from './model-pool.ts';
import { adapterName, busyOf, type ModelSlots, type PoolAdapter, type Slot } from './model-slots.ts';

/** How the pool loads and unloads models. */
interface Loader {
  load(name: string): Promise<AcquireResult>;
  unload(slot: Slot, why: string): Promise<void>;
}

export class AdapterChanges {
  readonly #slots: ModelSlots;
  readonly #loader: Loader;

  constructor(slots: ModelSlots, loader: Loader) {
    this.#slots = slots;
    this.#loader = loader;
  }

  async add(model: string | undefined, name: string, path: string): Promise<AdapterChange> {
    const slot = this.#slots.get(model)?.slot;
    if (slot === undefined)
      return { ok: false, failure: 'unknown-model', message: `there is no model ${model}` };
    const { name: itsName, path: itsPath, adapters = [] } = slot.model;
    if (this.#slots.has(name) || this.#slots.has(adapterName(itsName, name))) {
      return { ok: false, failure: 'exists', message: `there is a model '${name}' already` };
    }
    try {
      const given = { ...readGivenAdapter(`${itsName}:${name}=${path}`), aliases: [name] };
      openLocalModel(itsPath, { adapters: [given] }).close();
      return await this.#setAdapters(slot, [...adapters, given]);
    } catch (error) {
      return { ok: false, failure: 'unusable', message: messageOf(error) };
    }
  }

  async remove(name: string): Promise<AdapterChange> {
    const found = this.#slots.get(name);
    if (found?.adapter === undefined) {
      return { ok: false, failure: 'unknown-adapter', message: `there is no adapter '${name}'` };
    }
    const { slot, adapter } = found;
    return this.#setAdapters(slot, (slot.model.adapters ?? []).toSpliced(adapter, 1));
  }

  /** An engine has its adapters from the start, so that a loaded model is loaded again. */
  async #setAdapters(slot: Slot, adapters: readonly PoolAdapter[]): Promise<AdapterChange> {
    const { name } = slot.model;
    if (busyOf(slot) > 0) {
      return { ok: false, failure: 'busy', message: `the model '${name}' is in use; try again later` };
    }
    const isLoaded = slot.engine !== undefined,
      former = slot.model.adapters ?? [];
    this.#slots.setAdapters(slot, adapters);
    if (!isLoaded) return { ok: true };
    await this.#loader.unload(slot, 'its adapters change');
    const loaded = await this.#loader.load(name);
    if (loaded.ok) {
      loaded.lease.release();
      return { ok: true };
    }
    // The model is served as before.
    this.#slots.setAdapters(slot, former);
    const again = await this.#loader.load(name);
    if (again.ok) again.lease.release();
    return { ok: false, failure: 'unusable', message: loaded.message };
  }
}
