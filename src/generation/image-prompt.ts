// A conversation with pictures, read at once and in the calling thread: for commands and for comparing with other implementations.

import type { PictureLimits } from '../images/decode.ts';
import type { ImageInput } from '../model/vision/vision-spec.ts';
import type { LocalModel } from '../pool/local-model.ts';
import type { ChatMessage } from './chat-prompt.ts';
import { withImages } from './context-room.ts';
import { defaultImageLimits, picturedPrompt } from './pictured-prompt.ts';
import { directEncoder } from './prompt-encoder.ts';

export interface ImagePrompt {
  readonly ids: Int32Array;
  /** In the order of the text. */
  readonly images: readonly ImageInput[];
  /** Positions of placeholders, ascending: those of the first picture, then those of the next. */
  readonly places: Int32Array;
  /** Time, row and column of each token, where the model rotates by them. */
  readonly rotaryPositions?: Int32Array;
  /** Of a prefix LM with images: where the prompt ends, whose tokens see each other. */
  readonly prefixEnd?: number;
}

interface ImagePromptOptions {
  /** Gives the file that a part's URL names. */
  readonly load: (url: string) => Promise<Uint8Array>;
  readonly limits?: PictureLimits;
}

type SeeingModel = Pick<LocalModel, 'spec' | 'tokenizer' | 'template'> & { readonly name: string };

export async function imagePrompt(
  model: SeeingModel,
  messages: readonly ChatMessage[],
  { load, limits = defaultImageLimits }: ImagePromptOptions,
): Promise<ImagePrompt> {
  const { signal } = new AbortController();
  const prompt = await picturedPrompt(
    { ...model, path: model.name },
    { messages },
    {
      load: ({ url }) => load(url),
      limits: { ...defaultImageLimits, ...limits },
      encoder: directEncoder,
      signal,
      parameter: 'messages',
      mustFit: false,
    },
  );
  const { ids, images: { images = [], rotaryPositions } = {} } = await withImages(prompt, signal);
  return {
    ids,
    images: images.map(({ input }) => input),
    places: Int32Array.from(images.flatMap(({ places }) => [...places])),
    // As in transformers: a prompt of text alone is causal.
    ...(model.spec.prefixLm && images.length > 0 ? { prefixEnd: ids.length } : {}),
    ...(rotaryPositions === undefined ? {} : { rotaryPositions }),
  };
}
