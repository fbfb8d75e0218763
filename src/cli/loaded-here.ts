// Loads a model into this process, for commands that answer without a server.

import type { BackendName } from '../compute/backend.ts';
import { chooseBackend } from '../compute/choose-backend.ts';
import { visionLimits } from '../engine/load-engine.ts';
import { LocalEngine } from '../engine/local-engine.ts';
import type { AdapterPath } from '../model/open-spec.ts';
import { isEncoder, textOnlyNotice } from '../model/spec-walk.ts';
import type { LocalModel } from '../pool/local-model.ts';
import type { ServedModel } from '../pool/served-model.ts';
import { progressBar } from './terminal.ts';

interface LoadHereOptions {
  readonly blockCount: number;
  readonly backend?: BackendName | undefined;
  readonly maxBatchSize?: number | undefined;
  readonly direct?: boolean | undefined;
}

export function adapterOf({ adapter }: { readonly adapter?: string }): AdapterPath[] {
  return adapter === undefined ? [] : [{ name: adapter, path: adapter }];
}

export async function loadHere(
  path: string,
  { spec, weights, tokenizer, template, pooling, close }: LocalModel,
  { blockCount, backend: backendName, maxBatchSize, direct = false }: LoadHereOptions,
): Promise<ServedModel> {
  const choice = chooseBackend(backendName);
  for (const notice of [choice.notice, textOnlyNotice(spec)]) {
    if (notice !== undefined) process.stderr.write(`${notice}\n`);
  }
  const bar = progressBar('loading');
  try {
    const backend = await choice.create(spec, weights, { blockCount, onProgress: bar.update });
    const engine = new LocalEngine(backend, {
      blockCount,
      budget: { kind: 'fixed', maxStepTokens: 512 },
      vocabSize: spec.vocabSize,
      contextLength: spec.contextLength,
      wholeTexts: isEncoder(spec),
      vision: visionLimits(spec),
      endIds: [...tokenizer.eosIds],
      direct,
      ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
    });
    // The requested adapter is the first.
    const adapter = spec.adapters === undefined ? undefined : 0;
    return { name: path, path, adapter, spec, tokenizer, template, pooling, engine, blockCount, direct };
  } finally {
    bar.end();
    close();
  }
}
