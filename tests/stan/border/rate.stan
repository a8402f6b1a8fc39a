functions { real rate() { return 0.5; } }
