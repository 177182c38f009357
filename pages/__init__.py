"""The gallery: a file a page, one question a page; pages/ui holds the frames."""
