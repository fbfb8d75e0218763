// The thread of `pack-workers.ts`: packs one piece of a matrix after another.

import { parentPort } from 'node:worker_threads';
import { messageOf } from '../../runtime/error-message.ts';
import type { TensorType } from '../../weights/tensor-type.ts';
import { type Panels, packPanels } from './pack-panels.ts';

export interface PackWork {
  readonly type: TensorType;
  readonly inputs: number;
  readonly rows: Uint8Array<ArrayBuffer>;
  readonly count: number;
}

export type PackAnswer =
  | { readonly ok: true; readonly panels: Panels }
  | { readonly ok: false; readonly message: string };

function answer({ type, inputs, rows, count }: PackWork): PackAnswer {
  try {
    return { ok: true, panels: packPanels(type, inputs, rows, count) };
  } catch (error) {
    return { ok: false, message: messageOf(error) };
  }
}

parentPort?.on('message', (work: PackWork) => {
  const result = answer(work);
  const moved = result.ok ? [result.panels.codes.buffer, result.panels.scales.buffer] : [];
  parentPort?.postMessage(result, moved);
});
