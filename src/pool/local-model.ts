// A model on disk, opened: its spec, its weights, its tokenizer, template and pooling. Nothing is loaded yet.

import { type BuildSpecOptions, buildSpec } from '../model/build-spec.ts';
import { type ModelPooling, modelPooling } from '../model/pooling.ts';
import type { ModelSpec } from '../model/spec.ts';
import type { ChatTemplate } from '../text/chat-template.ts';
import { openText } from '../text/open-text.ts';
import type { Tokenizer } from '../text/tokenizer.ts';
import { type OpenedModel, openModelFiles } from '../weights/open-model.ts';

export interface LocalModel {
  readonly files: OpenedModel;
  readonly spec: ModelSpec;
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate | undefined;
  readonly pooling: ModelPooling;
  close(): void;
}

export function openLocalModel(path: string, options: BuildSpecOptions = {}): LocalModel {
  const files = openModelFiles(path);
  try {
    const spec = buildSpec(files, options);
    const { tokenizer, template } = openText(files);
    const pooling = modelPooling(files);
    return { files, spec, tokenizer, template, pooling, close: () => files.weights.close() };
  } catch (error) {
    files.weights.close();
    throw error;
  }
}
