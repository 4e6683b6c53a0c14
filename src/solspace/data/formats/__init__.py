"""One reader for each format in which users have images; all of them refuse damaged and hostile files in a sentence."""
