"""Values of the lab's command line, checked and priced before anything is trained."""
