// Models with a head that classifies: what their files say of the scores that it gives to a text, or to a query and a document.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { MetadataReader } from '../weights/gguf-metadata.ts';
import { isJsonObject, type JsonObject, readJsonFile } from '../weights/json-file.ts';
import type { OpenedModel, SafetensorsModel } from '../weights/open-model.ts';
import { classifierHead } from './classifier-head.ts';
import type { Pooling } from './pooling.ts';
import { hasSecondTexts } from './second-texts.ts';
import type { ModelSpec } from './spec.ts';

export interface ModelClassifier {
  readonly pooling: Pooling;
  /** Of each score that the head gives. */
  readonly labels: readonly string[];
  /** What makes scores of the head's outputs. */
  readonly activation: 'sigmoid' | 'softmax' | 'none';
  readonly pairs: PairFormat;
}

/** How a query and a document become one prompt. */
export type PairFormat =
  /** One after the other; `secondText` is added to the ids of the second, where the model has embeddings of its own for it. */
  | { readonly kind: 'joined'; readonly secondText: number }
  /** `{query}` and `{document}` stand for them, `{instruction}` for what a document should be good for. */
  | { readonly kind: 'template'; readonly template: string };

export function modelClassifier(opened: OpenedModel, spec: ModelSpec): ModelClassifier | undefined {
  const head = classifierHead(opened, spec);
  if (head === undefined) return undefined;
  const { pooling, outputs } = head;
  const named = opened.format === 'gguf' ? ggufLabels(opened) : folderLabels(opened.config);
  const labels = Array.from({ length: outputs }, (_, at) => named[at] ?? `LABEL_${at}`);
  const activation = opened.format === 'gguf' ? usualActivation(outputs) : folderActivation(opened, outputs);
  return { pooling, labels, activation, pairs: pairFormat(opened, spec) };
}

function usualActivation(outputs: number): ModelClassifier['activation'] {
  return outputs === 1 ? 'sigmoid' : 'softmax';
}

const activations: Readonly<Record<string, ModelClassifier['activation']>> = {
  Sigmoid: 'sigmoid',
  Softmax: 'softmax',
  Identity: 'none',
};

/** Named by its class, where sentence-transformers wrote it; labels that exclude no other are scored alone. */
function folderActivation({ directory, config }: SafetensorsModel, outputs: number) {
  const own = isJsonObject(config.sentence_transformers) ? config.sentence_transformers : {};
  const file = join(directory, 'config_sentence_transformers.json');
  const settings = existsSync(file) ? readJsonFile(file) : {};
  const named = settings.activation_fn ?? own.activation_fn ?? config.sbert_ce_default_activation_function;
  const known = activations[String(named).split('.').at(-1) ?? ''];
  if (known !== undefined) return known;
  return config.problem_type === 'multi_label_classification' ? 'sigmoid' : usualActivation(outputs);
}

function folderLabels({ id2label: labels }: JsonObject): readonly string[] {
  if (!isJsonObject(labels)) return [];
  return Object.keys(labels)
    .sort((a, b) => Number(a) - Number(b))
    .map((id) => String(labels[id]));
}

function ggufLabels(gguf: Extract<OpenedModel, { format: 'gguf' }>): readonly string[] {
  const reader = new MetadataReader(gguf);
  const prefix = reader.optionalString('general.architecture') ?? '';
  return reader.optionalStrings(`${prefix}.classifier.output_labels`) ?? [];
}

/** The prompt that Qwen3-Reranker was trained with, which its first folders do not hold. */
const judged =
  '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n';

function pairFormat(opened: OpenedModel, spec: ModelSpec): PairFormat {
  if (opened.format === 'gguf') {
    const template = new MetadataReader(opened).optionalString('tokenizer.chat_template.rerank');
    if (template !== undefined) return { kind: 'template', template };
  } else if (opened.config.model_type === 'qwen3') return { kind: 'template', template: judged };
  return { kind: 'joined', secondText: hasSecondTexts(spec) ? spec.vocabSize / 2 : 0 };
}
