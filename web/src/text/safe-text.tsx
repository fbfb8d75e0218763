// A text from elsewhere within a line of our own: it can neither leave its place nor turn its surroundings around.

import { visible } from '../../../src/text/visible.ts';
import { shortened } from './shortened.ts';

export interface SafeTextProps {
  readonly text: string;
  readonly most?: number;
}

/** A tooltip has the rest, as far as somebody would read there. */
const TOOLTIP_CHARACTERS = 2000;

export function SafeText({ text, most = 300 }: SafeTextProps) {
  const shown = visible(shortened(text, most));
  const rest = text.length > most ? { title: visible(shortened(text, TOOLTIP_CHARACTERS)) } : {};
  return (
    <bdi class="safe" {...rest}>
      {shown}
    </bdi>
  );
}
