"""The API: public doors over one core. A door parses, authorizes, calls the core and translates; it holds no rule of the domain."""
