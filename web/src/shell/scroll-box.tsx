// A box whose content may be wider or longer than the page has room for. Whoever has no mouse scrolls it with the arrow
// keys, so it must be reachable, and have a name.

import type { ComponentChildren } from 'preact';

export interface ScrollBoxProps {
  readonly name: string;
  /** Whether it is cut at some height. */
  readonly cut?: boolean;
  readonly children: ComponentChildren;
}

export function ScrollBox({ name, cut = false, children }: ScrollBoxProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard
    <section class={cut ? 'scroll-box cut' : 'scroll-box'} tabIndex={0} aria-label={name}>
      {children}
    </section>
  );
}
