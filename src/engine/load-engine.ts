// From settings to a loaded backend and the options of its engine.

import type { Backend } from '../compute/backend.ts';
import { type BackendChoice, chooseBackend } from '../compute/choose-backend.ts';
import { selfTest, TESTED_BLOCKS } from '../compute/self-test.ts';
import { readClassifierHead } from '../model/classifier-head.ts';
import { readDenseLayers } from '../model/dense-layers.ts';
import { openSpec } from '../model/open-spec.ts';
import type { ModelSpec } from '../model/spec.ts';
import { attentionsOf, isEncoder } from '../model/spec-walk.ts';
import { calibratedBudget, measuredDrafts, measuredRows } from './calibrate.ts';
import type { EngineOptions } from './engine.ts';
import type { VisionLimits } from './images/prompt-images.ts';
import type { EngineSettings, FromEngine } from './protocol.ts';
import { type DraftModelOptions, draftRefusal } from './speculation/draft-model.ts';

/** What an engine says of itself when it is ready. */
export function readyMessage({ backend, choice }: LoadedEngine): FromEngine {
  const { name, notice } = choice;
  const device = backend.device ?? choice.device;
  return {
    kind: 'ready',
    backend: name,
    ...(device === undefined ? {} : { device }),
    ...(notice === undefined ? {} : { notice }),
  };
}

export interface LoadedEngine {
  readonly backend: Backend;
  readonly options: EngineOptions;
  readonly choice: BackendChoice;
}

export async function loadEngine(
  settings: EngineSettings,
  onProgress: (share: number) => void,
  warn: (message: string) => void = () => {},
): Promise<LoadedEngine> {
  const { threads, kvType, gpu, engine } = settings;
  const choice = chooseBackend(settings.backend, {
    ...(threads === undefined ? {} : { threads }),
    ...(kvType === undefined ? {} : { kvType }),
    ...(gpu === undefined ? {} : { gpu }),
  });
  const { contextLength, blockCount } = engine;
  const { stateSlots, adapters = [], images = false, projectorPath } = settings;
  const { files, spec, weights } = openSpec(settings.modelPath, {
    ...(contextLength === undefined ? {} : { contextLength }),
    adapters,
    images: images && 'if-possible',
    projectorPath,
    mtp: settings.mtp,
    eagle3Path: settings.eagle3Path,
  });
  try {
    const backend = await choice.create(spec, weights, {
      blockCount,
      ...(stateSlots === undefined ? {} : { stateSlots }),
      onProgress,
    });
    const problem = await selfTestProblem(backend, spec);
    const budget = engine.budget ?? (await calibratedBudget(backend, () => onProgress(1)));
    const draft = await loadDraft(settings, spec, choice).catch((error: unknown) => {
      backend.close();
      throw error;
    });
    const speculates = (engine.speculation ?? true) && spec.headless !== true;
    const rowTimes = speculates ? await measuredRows(backend, () => onProgress(1)) : undefined;
    const draftTimes = speculates ? await measuredDrafts(backend) : undefined;
    releaseMeasured(backend);
    const { vocabSize } = spec;
    const dense = readClassifierHead(files, spec) ?? readDenseLayers(files);
    const embedding = { wholeTexts: isEncoder(spec), dense };
    const options = {
      ...engine,
      budget,
      vocabSize,
      contextLength: spec.contextLength,
      ...embedding,
      vision: visionLimits(spec),
      draft,
      rowTimes,
      draftTimes,
      ...tierOptions(settings, warn),
      slots: settings.slots,
    };
    return { backend, options, choice: withNotice(choice, problem) };
  } finally {
    weights.close();
  }
}

function tierOptions(
  { tiers }: EngineSettings,
  warn: (message: string) => void,
): Pick<EngineOptions, 'hostBytes' | 'openDisk' | 'warn'> {
  if (tiers === undefined) return { warn };
  const { hostBytes, disk } = tiers;
  if (disk === undefined) return { hostBytes, warn };
  const openDisk: EngineOptions['openDisk'] = async (model) => {
    const { BlockStore } = await import('../block-store/block-store.ts');
    return BlockStore.open({ ...disk, model, warn });
  };
  return { hostBytes, openDisk, warn };
}

/** Undefined where the model was opened without a vision tower. */
export function visionLimits(spec: ModelSpec): VisionLimits | undefined {
  if (spec.vision === undefined) return undefined;
  const { steps } = spec.vision.tower;
  return {
    hiddenSize: spec.hiddenSize,
    deepstackLayers: steps.filter(({ kind }) => kind === 'deepstack').length,
    bothWays: bothWaysOf(spec),
  };
}

function bothWaysOf(spec: ModelSpec): VisionLimits['bothWays'] {
  if (!attentionsOf(spec).some(({ imagesBothWays }) => imagesBothWays)) return undefined;
  return spec.prefixLm ? 'prompts' : 'images';
}

/** Answers are right all the same; what they might differ by should be known. */
async function selfTestProblem(backend: Backend, spec: ModelSpec): Promise<string | undefined> {
  if (backend.wantsSelfTest !== true || spec.headless === true || isEncoder(spec)) return undefined;
  const problem = await selfTest(backend, spec.vocabSize);
  return problem && `on ${backend.device ?? backend.name} ${problem} (docs/gpu.md)`;
}

/** What was computed at the start is needed no more: the engine counts all blocks as uncommitted. */
function releaseMeasured(backend: Backend): void {
  const length = Math.min(backend.blockCount, TESTED_BLOCKS);
  backend.releaseBlocks(Int32Array.from({ length }, (_, block) => block));
}

function withNotice(choice: BackendChoice, problem: string | undefined): BackendChoice {
  const notice = [choice.notice, problem].filter((one) => one !== undefined).join('; ');
  return notice === '' ? choice : { ...choice, notice };
}

/** As many blocks as the model has that it drafts for. */
async function loadDraft(
  { draftPath, engine }: EngineSettings,
  { vocabSize }: ModelSpec,
  choice: BackendChoice,
): Promise<DraftModelOptions | undefined> {
  if (draftPath === undefined || engine.speculation === false) return undefined;
  const { spec, weights } = openSpec(draftPath);
  try {
    const refusal = draftRefusal(spec, vocabSize);
    if (refusal !== undefined) throw new Error(`${draftPath} cannot draft for another model: ${refusal}`);
    const backend = await choice.create(spec, weights, { blockCount: engine.blockCount });
    return { backend, vocabSize, contextLength: spec.contextLength };
  } finally {
    weights.close();
  }
}
