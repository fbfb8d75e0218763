// A model that is loaded and answers: what the server needs of it.

import type { EngineClient } from '../engine/engine-client.ts';
import type { ModelClassifier } from '../model/classifier.ts';
import type { ModelPooling } from '../model/pooling.ts';
import type { ModelSpec } from '../model/spec.ts';
import type { SamplingDefaults } from '../sampling/parameters.ts';
import type { ChatTemplate } from '../text/chat-template.ts';
import type { FillInMiddle } from '../text/fill-in-middle.ts';
import type { Tokenizer } from '../text/tokenizer.ts';

export interface ServedModel {
  /** The name clients use. */
  readonly name: string;
  readonly path: string;
  /** A hash of its files, where they are on other machines. */
  readonly content?: string | undefined;
  /** Which of its adapters requests use. */
  readonly adapter?: number | undefined;
  readonly spec: ModelSpec;
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate | undefined;
  /** Why it reads no images, where there is more to say than that it has no tower. */
  readonly visionProblem?: string | undefined;
  /** Its engine is given pictures as they came: who computes prepares them. */
  readonly takesPictures?: boolean | undefined;
  /** How texts become vectors. */
  readonly pooling: ModelPooling;
  /** Absent where it has no head that scores texts. */
  readonly classifier?: ModelClassifier | undefined;
  /** How its files say that it is best sampled from. */
  readonly sampling?: SamplingDefaults | undefined;
  /** Absent where it was not trained to fill gaps. */
  readonly fillInMiddle?: FillInMiddle | undefined;
  readonly engine: EngineClient;
  /** KV blocks there can ever be: no sequence is longer. */
  readonly blockCount: number;
  /** Whether it runs without batching now, by choice or as a fallback. It changes while the model is loaded. */
  readonly direct: boolean;
}
