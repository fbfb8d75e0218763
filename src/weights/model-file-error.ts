// The one error a bad model file gives: which file, which field, what is wrong, what to do.

export interface ModelFileFault {
  readonly file: string;
  /** The field, key or tensor at fault, as the file spells it. */
  readonly field: string;
  readonly problem: string;
  readonly remedy: string;
}

const SHOWN_FIELD = 120;
const SHOWN_PROBLEM = 400;

export class ModelFileError extends Error {
  readonly fault: ModelFileFault;

  constructor(fault: ModelFileFault) {
    const field = fault.field === '' ? '(empty name)' : printable(fault.field);
    super(`${fault.file}: ${field}: ${printable(fault.problem, SHOWN_PROBLEM)}. ${fault.remedy}`);
    this.name = 'ModelFileError';
    this.fault = fault;
  }
}

/** Text of a file made safe to show: hostile files hold names of any length with control characters. */
export function printable(text: string, limit = SHOWN_FIELD): string {
  const clipped = text.length > limit ? `${text.slice(0, limit)}…` : text;
  return clipped.replace(/\p{C}/gu, '\ufffd');
}
