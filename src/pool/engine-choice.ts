// What is chosen for the engines of all models alike, and the settings of one engine that follow for its model.

import type { EngineSettings } from '../engine/protocol.ts';
import type { LocalModel } from './local-model.ts';
import type { ModelMemory } from './model-memory.ts';
import type { GivenDrafter } from './mtp-choice.ts';

/** The settings of an engine, less what its model and its memory bring. */
export interface EngineChoice
  extends Omit<
    EngineSettings,
    | 'modelPath'
    | 'adapters'
    | 'projectorPath'
    | 'draftPath'
    | 'eagle3Path'
    | 'mtp'
    | 'kvType'
    | 'stateSlots'
    | 'engine'
  > {
  readonly engine?: Omit<EngineSettings['engine'], 'blockCount' | 'blockLimit' | 'endIds' | 'imageBytes'>;
}

export function engineSettings(
  { files, tokenizer, spec }: LocalModel,
  { kvType, stateSlots, imageBytes, blockCount, firstBlocks }: ModelMemory,
  choice: EngineChoice,
  { adapters = [], ...besides }: Pick<EngineSettings, 'adapters' | 'projectorPath' | keyof GivenDrafter> = {},
): EngineSettings {
  return {
    ...choice,
    modelPath: files.path,
    ...(adapters.length === 0 ? {} : { adapters }),
    ...besides,
    kvType,
    ...(stateSlots === undefined ? {} : { stateSlots }),
    // As it was opened here.
    images: spec.vision !== undefined,
    mtp: spec.mtp !== undefined && besides.eagle3Path === undefined,
    engine: {
      ...choice.engine,
      blockCount,
      blockLimit: firstBlocks,
      ...(imageBytes === undefined ? {} : { imageBytes }),
      endIds: [...tokenizer.eosIds],
    },
  };
}
