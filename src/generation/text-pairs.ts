// A query and a document as one prompt of a cross-encoder, in the form that the model was trained with.

import type { ServedModel } from '../pool/served-model.ts';
import type { Classifier } from './embedding.ts';
import { invalid } from './generation-error.ts';
import type { PromptInput } from './prompt.ts';

export interface TextPair {
  readonly query: string;
  readonly document: string;
}

interface PairOptions {
  /** What documents should be good for, for models that take it. */
  readonly instruction?: string | undefined;
  /** The document loses its end where both do not fit. Default false. */
  readonly cuts?: boolean | undefined;
}

const USUAL_INSTRUCTION = 'Given a web search query, retrieve relevant passages that answer the query';

export function pairInput(
  { query, document }: TextPair,
  { template }: Pick<ServedModel, 'template'>,
  { pairs }: Classifier,
  { instruction, cuts }: PairOptions,
): PromptInput {
  if (pairs.kind === 'joined') {
    if (instruction !== undefined)
      throw invalid('instruction', 'the model takes a query and a document alone');
    return { kind: 'pair', first: query, second: document, secondText: pairs.secondText, cuts };
  }
  if (cuts) throw invalid('truncate', 'is not possible with this model: its prompt ends after the document');
  if (template !== undefined && isForPairs(template.source)) {
    const system = instruction === undefined ? [] : [{ role: 'system', content: instruction }];
    const messages = [...system, { role: 'query', content: query }, { role: 'document', content: document }];
    return { kind: 'text', bos: false, text: template.render({ messages, addGenerationPrompt: true }) };
  }
  const values = { query, document, instruction: instruction ?? USUAL_INSTRUCTION };
  if (instruction !== undefined && !pairs.template.includes('{instruction}')) {
    throw invalid('instruction', 'the prompt of this model has no place for it');
  }
  const text = pairs.template.replace(
    /\{(query|document|instruction)\}/g,
    (_, name: keyof typeof values) => values[name],
  );
  return { kind: 'text', bos: false, text };
}

/** Newer rerankers have a chat template for messages of these roles. */
function isForPairs(template: string): boolean {
  return /['"]query['"]/.test(template) && /['"]document['"]/.test(template);
}
