// How a picture stands in a prompt, as data: the marker that templates write for it becomes a text with a placeholder for each
// feature.

export interface ImagePromptSpec {
  /** What the template writes for a picture. */
  readonly marker: string;
  /** The placeholder, one token, whose embeddings are replaced. */
  readonly text: string;
  readonly layout: ImageLayout;
  /** Beside marker and placeholder: what stands for pictures alone. A message's text that has it is refused. */
  readonly reserved: readonly string[];
  /** A chat template, for families whose files have none. */
  readonly template?: string;
  /** Rotary positions are of time, row and column; absent: one after the other. */
  readonly positions?: 'three-part';
}

export type ImageLayout =
  /** All features in one run. */
  | { readonly kind: 'run'; readonly before: string; readonly after: string }
  /** A text between rows of features, and one after the last. */
  | { readonly kind: 'rows'; readonly between: string; readonly end: string }
  | ({ readonly kind: 'views' } & ViewTexts);

/** Tiles row by row, each after a text of its own, then the whole. */
export interface ViewTexts {
  readonly before: string;
  /** `{row}` and `{column}` count from 1. */
  readonly tile: string;
  readonly betweenTiles: string;
  readonly afterRow: string;
  /** Before the whole, which is the last view. */
  readonly whole: string;
  /** The same where there is no other view. */
  readonly alone: string;
  readonly after: string;
}
