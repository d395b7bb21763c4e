// Holds the target until its first source lands.
