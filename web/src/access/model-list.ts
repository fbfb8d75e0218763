// GET /v1/models, as far as the page needs it.

export interface ModelList {
  readonly data: readonly {
    readonly id: string;
    /** False for one that writes no text. */
    readonly generates?: false;
  }[];
}

/** The names of those that can be talked to, the default model first. */
export function generators(list: ModelList | undefined): readonly string[] {
  return list?.data.filter(({ generates }) => generates !== false).map(({ id }) => id) ?? [];
}

/** Where a name could break out of the quotes of a shell or a program, the built-in one stands for it. */
export function quotable(name: string | undefined): string {
  return name !== undefined && /^[\w.:@/+-]+$/.test(name) ? name : 'default';
}
