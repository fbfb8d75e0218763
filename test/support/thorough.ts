// CHAIRLIFT_TESTS=all runs what takes long and repeats, in other forms, what every run shows.

export const thorough = process.env.CHAIRLIFT_TESTS === 'all';

/** All random cases, or a share of them unless all is asked for. */
export function cases(all: number, share = 0.3): number {
  return thorough ? all : Math.ceil(share * all);
}

/** Every third, so that neighbours differ, unless all is asked for. */
export function some<Case>(all: readonly Case[]): readonly Case[] {
  return thorough ? all : all.filter((_, index) => index % 3 === 0);
}
