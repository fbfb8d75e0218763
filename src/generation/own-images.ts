// How pictures are had where nobody says: from `data:` URLs.

import { dataUrlBytes, isDataUrl } from '../images/data-url.ts';
import { invalid } from './generation-error.ts';
import { defaultImageLimits, type ImageReading } from './pictured-prompt.ts';

export const ownImages: ImageReading = {
  load: async ({ url, where }) => {
    if (isDataUrl(url)) return dataUrlBytes(url, defaultImageLimits.maxBytes);
    throw invalid(where, 'give the image as a data: URL of base64');
  },
};
