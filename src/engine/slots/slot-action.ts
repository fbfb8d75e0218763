// What can be done with a slot, and what comes of it. A slot is a number by which the prefix is known that a request has left in the
// prefix cache: the last one that named it, or ran under it.

interface ActionBase {
  readonly slot: number;
  /** Whose slot it is; the tenant of the salt. */
  readonly tenant: string;
}

export interface SaveAction extends ActionBase {
  readonly kind: 'save';
  readonly owner: string;
  /** Of the file, in the owner's folder. */
  readonly name: string;
}

export interface RestoreAction extends ActionBase {
  readonly kind: 'restore';
  readonly owner: string;
  readonly name: string;
  /** Whose blocks they are from then on; see EngineRequest. */
  readonly account: string;
  readonly kvShare?: number | undefined;
}

export interface EraseAction extends ActionBase {
  readonly kind: 'erase';
}

export type SlotAction = SaveAction | RestoreAction | EraseAction;

/**
 * `off`: slots cannot be saved here. `empty`: nothing is known of the slot, or nothing of it is left. `unfit`: of another model, adapter, KV
 * type or version of the arithmetic. `busy`: no room for its blocks now. `full`: the disk is. `failed`: the system refused a call.
 */
export type SlotFailure =
  | 'off'
  | 'empty'
  | 'absent'
  | 'damaged'
  | 'foreign'
  | 'unfit'
  | 'busy'
  | 'full'
  | 'failed'
  | 'ended';

export type SlotResult =
  | {
      readonly ok: true;
      /** Saved, restored, or erased. */
      readonly tokens: number;
      /** Of the file. */
      readonly bytes: number;
      readonly ms: number;
    }
  | {
      readonly ok: false;
      readonly failure: SlotFailure;
      readonly message: string;
      /** For operators, where there is more to say. */
      readonly detail?: string;
    };

export type FailedSlot = Extract<SlotResult, { ok: false }>;

export function slotFailure(failure: SlotFailure, message: string): FailedSlot {
  return { ok: false, failure, message };
}
