"""Tools that test dibs, apart from the product: the torture lab and the Notion emulator."""
