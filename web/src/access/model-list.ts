// GET /v1/models, as far as the page needs it.

export interface ModelList {
  readonly data: readonly {
    readonly id: string;
    /** False for one that writes no text. */
    readonly generates?: false;
    readonly modalities?: readonly string[];
    /** The server elsewhere that has it. */
    readonly upstream?: string;
  }[];
}

/** The names of those that can be talked to, the default model first. */
export function generators(list: ModelList | undefined): readonly string[] {
  return list?.data.filter(({ generates }) => generates !== false).map(({ id }) => id) ?? [];
}

/** Those that may be shown images: of models elsewhere nobody here knows. */
export function imageReaders(list: ModelList | undefined): ReadonlySet<string> {
  const seeing = list?.data.filter(({ modalities, upstream }) => upstream ?? modalities?.includes('image'));
  return new Set(seeing?.map(({ id }) => id));
}

/** Where a name could break out of the quotes of a shell or a program, the built-in one stands for it. */
export function quotable(name: string | undefined): string {
  return name !== undefined && /^[\w.:@/+-]+$/.test(name) ? name : 'default';
}
