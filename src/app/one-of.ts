// A type for options that exclude each other.

/** One of the fields, or none; the others are absent or undefined. */
export type OneOf<Fields> = {
  [Name in keyof Fields]: { readonly [Own in Name]?: Fields[Own] | undefined } & {
    readonly [Other in Exclude<keyof Fields, Name>]?: undefined;
  };
}[keyof Fields];
